select c_mktsegment, n_name, count(distinct o_orderkey) n, sum(o_totalprice)
from customer
left join orders on c_custkey=o_custkey
left join nation on c_nationkey=n_nationkey
group by 1,2
order by 1,2
