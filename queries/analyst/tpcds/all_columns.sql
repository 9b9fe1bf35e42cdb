select *
from store_sales
where ss_net_profit < -9000
order by ss_net_profit, ss_item_sk, ss_ticket_number
limit 1000
