select s.s_name, p.p_name, ps.ps_availqty
from partsupp ps
join supplier s on s.s_suppkey=ps.ps_suppkey
join part p on p.p_partkey=ps.ps_partkey
where ps.ps_availqty < 10
order by 3,1,2
