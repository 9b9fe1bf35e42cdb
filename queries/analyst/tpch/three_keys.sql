select l_partkey, l_suppkey, l_shipmode, count(*), sum(l_tax)
from lineitem
group by 1,2,3
order by 4 desc,1,2,3
limit 10
