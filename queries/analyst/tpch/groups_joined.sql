select c_custkey, c_name, o.cnt, o.total
from customer c
join (select o_custkey, count(*) cnt, sum(o_totalprice) total
  from orders
  group by 1) o on o.o_custkey=c.c_custkey
order by total desc, 1
limit 25
