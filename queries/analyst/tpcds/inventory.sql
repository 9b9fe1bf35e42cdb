select w_warehouse_name, i_category, avg(inv_quantity_on_hand) a, min(inv_quantity_on_hand) mi,
  count(*) filter (where inv_quantity_on_hand is null) nulls
from inventory
join warehouse on inv_warehouse_sk=w_warehouse_sk
join item on inv_item_sk=i_item_sk
group by 1,2
order by 1,2
