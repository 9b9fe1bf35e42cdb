select o_clerk, min(o_orderdate), max(o_orderdate), count(*) filter (where o_orderstatus='F') f,
  sum(o_totalprice) filter (where o_orderstatus='O') o
from orders
group by 1
order by 5 desc nulls last, 1
limit 10
