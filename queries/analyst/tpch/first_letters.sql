select substring(o_comment from 1 for 10) x, count(*)
from orders
group by 1
order by 2 desc, 1
limit 10
