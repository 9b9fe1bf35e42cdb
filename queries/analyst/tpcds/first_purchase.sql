select f.y, count(*)
from (select ss_customer_sk, min(d_year) y
  from store_sales
  join date_dim on ss_sold_date_sk=d_date_sk
  where ss_customer_sk is not null
  group by 1) f
group by 1
order by 1
