select count(*)
from orders
where o_orderkey not in (select l_orderkey
  from lineitem
  where l_quantity > 45)
