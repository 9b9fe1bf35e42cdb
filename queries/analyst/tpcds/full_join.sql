select coalesce(a.i,b.i) i, a.n, b.n
from (select ss_item_sk i, count(*) n
  from store_sales
  group by 1) a
full join (select ws_item_sk i, count(*) n
  from web_sales
  group by 1) b on a.i=b.i
order by 1
limit 100
