select c_nationkey, sum(c_acctbal) s, count(*) n
from customer
where c_phone like '1%' and c_acctbal > (select avg(c_acctbal)
  from customer
  where c_acctbal > 0)
group by 1
order by 1
