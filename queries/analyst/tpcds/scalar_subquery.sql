select i_item_id, i_current_price
from item
where i_current_price > 3*(select avg(i_current_price)
  from item) and i_item_sk in (select ss_item_sk
  from store_sales
  where ss_quantity=100)
order by 2 desc, 1
limit 50
