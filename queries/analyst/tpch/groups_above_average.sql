with r as (select l_suppkey k, sum(l_extendedprice*(1-l_discount)) v
  from lineitem
  group by 1) select count(*), max(v), min(v)
from r
where v > (select avg(v)
  from r)
