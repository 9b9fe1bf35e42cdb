select count(distinct ss_item_sk), count(distinct ss_customer_sk), count(distinct ss_ticket_number),
  count(distinct ss_hdemo_sk)
from store_sales
