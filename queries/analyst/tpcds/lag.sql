select count(*), avg(gap)
from (select ss_customer_sk, ss_sold_date_sk - lag(ss_sold_date_sk) over (partition by ss_customer_sk order by ss_sold_date_sk, ss_ticket_number, ss_item_sk) gap
  from store_sales) t
where gap > 0
