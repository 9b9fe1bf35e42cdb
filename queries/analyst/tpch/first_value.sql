select first_value(o_orderkey order by o_totalprice desc, o_orderkey) f, o_custkey, count(*) c
from orders
group by 2
order by 3 desc, 2
limit 10
