select count(*)
from (select ss_customer_sk
  from store_sales
  intersect select ws_bill_customer_sk
  from web_sales
  except select cs_bill_customer_sk
  from catalog_sales) t
