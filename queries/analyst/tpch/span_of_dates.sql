select o_orderkey, sum(l_quantity) q, max(l_shipdate) - min(l_shipdate) d
from orders
join lineitem on o_orderkey=l_orderkey
group by 1
order by d desc, 1
limit 10
