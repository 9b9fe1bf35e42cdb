select l_returnflag, approx_distinct(l_partkey), count(distinct l_suppkey)
from lineitem
group by 1
order by 1
