select ss_ticket_number, ss_item_sk, ss_net_paid
from store_sales
where ss_quantity > 50
order by ss_net_paid desc, ss_ticket_number, ss_item_sk
limit 200000
