select date_trunc('week', o_orderdate) w, count(*) c, sum(o_totalprice) s, avg(o_totalprice) a
from orders
where o_orderstatus <> 'P'
group by 1
order by 1
