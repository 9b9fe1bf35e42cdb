select ss_sold_date_sk, ss_store_sk, sum(ss_net_paid), count(*)
from store_sales
group by 1,2
order by 3 desc, 1, 2
limit 10
