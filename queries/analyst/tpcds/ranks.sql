select i_category, i_item_id, r, pr
from (select i_category, i_item_id, rank() over (partition by i_category order by i_current_price desc) r, percent_rank() over (partition by i_category order by i_current_price) pr
  from item) t
where r<=3
order by 1,3,2
