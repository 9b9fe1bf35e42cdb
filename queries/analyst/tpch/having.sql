select l_shipdate, sum(l_quantity) q
from lineitem
group by 1
having sum(l_quantity) > 80000
order by 2 desc, 1
limit 40
