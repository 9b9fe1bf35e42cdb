with f as (select ss_customer_sk c, min(d_month_seq) m0
  from store_sales
  join date_dim on ss_sold_date_sk=d_date_sk
  group by 1) select m0, d_month_seq-m0 age, count(distinct ss_customer_sk) n
from store_sales
join date_dim on ss_sold_date_sk=d_date_sk
join f on f.c=ss_customer_sk
where m0 between 1190 and 1195
group by 1,2
order by 1,2
