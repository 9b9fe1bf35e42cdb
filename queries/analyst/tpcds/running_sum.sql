select d_date, sum(ss_net_paid) r,
  sum(sum(ss_net_paid)) over (order by d_date rows between 6 preceding and current row) r7
from store_sales
join date_dim on ss_sold_date_sk=d_date_sk
group by d_date
order by d_date
