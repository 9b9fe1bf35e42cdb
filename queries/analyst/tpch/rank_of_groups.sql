select s_name, total, rank() over (order by total desc) r
from (select s_name, sum(l_extendedprice) total
  from supplier
  join lineitem on s_suppkey=l_suppkey
  group by 1) t
order by r
limit 20
