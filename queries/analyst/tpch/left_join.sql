select l_shipmode, extract(year from l_shipdate) y, count(*), sum(l_extendedprice*(1-l_discount))
from lineitem
left join orders on l_orderkey=o_orderkey
group by 1,2
order by 1,2
