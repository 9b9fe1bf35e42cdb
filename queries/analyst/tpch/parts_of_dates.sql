select extract(dow from o_orderdate) d, extract(hour from cast(o_orderdate as timestamp)) h, count(*),
  sum(round(o_totalprice,0))
from orders
group by 1,2
order by 1,2
