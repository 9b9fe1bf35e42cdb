select i_manufact_id, string_agg(distinct i_color, ',' order by i_color) colors,
  array_agg(i_item_id order by i_item_id) ids
from item
group by 1
order by 1
limit 50
