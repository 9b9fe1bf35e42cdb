select count(*)
from catalog_returns
join date_dim r on cr_returned_date_sk=r.d_date_sk
join catalog_sales on cs_order_number=cr_order_number and cs_item_sk=cr_item_sk
join date_dim s on cs_sold_date_sk=s.d_date_sk
where r.d_date > s.d_date + interval '30 days'
