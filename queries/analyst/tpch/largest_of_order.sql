select l1.l_orderkey
from lineitem l1
where l1.l_quantity = (select max(l2.l_quantity)
  from lineitem l2
  where l2.l_orderkey=l1.l_orderkey) and l1.l_shipmode='AIR'
order by l1.l_extendedprice desc, 1
limit 10
