select regexp_replace(i_item_desc,'^([A-Z]\w+).*$','\1') w, count(*) n
from item
group by 1
order by n desc, 1
limit 20
