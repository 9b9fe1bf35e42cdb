select date_trunc('month', d_date) m, count(distinct ss_customer_sk) customers, sum(ss_net_paid) revenue,
  avg(ss_quantity) q
from store_sales
join date_dim on ss_sold_date_sk=d_date_sk
group by 1
order by 1
