select c_birth_country, count(*)
from customer c
where exists (select 1
  from store_sales
  where ss_customer_sk=c_customer_sk and ss_quantity>90) and not exists (select 1
  from web_sales
  where ws_bill_customer_sk=c_customer_sk)
group by 1
order by 2 desc, 1
limit 10
