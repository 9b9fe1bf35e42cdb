select c_customer_id, c_first_name, c_last_name, sum(ss_net_paid) ltv,
  count(distinct ss_ticket_number) visits, max(d_date) last
from customer
join store_sales on c_customer_sk=ss_customer_sk
join date_dim on d_date_sk=ss_sold_date_sk
group by 1,2,3
order by ltv desc, 1
limit 100
