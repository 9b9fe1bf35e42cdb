select n_name, sum(case when o_orderpriority in ('1-URGENT','2-HIGH') then 1 else 0 end) hi,
  sum(case when o_orderpriority not in ('1-URGENT','2-HIGH') then 1 else 0 end) lo
from orders
join customer on o_custkey=c_custkey
join nation on c_nationkey=n_nationkey
group by 1
order by 1
