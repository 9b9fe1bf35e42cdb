select p_brand, p_container, avg(ps_supplycost) a, min(ps_availqty)
from part
join partsupp on p_partkey=ps_partkey
where p_size in (1,5,9,20,30) and p_type like '%BRASS'
group by 1,2
order by a desc, 1, 2
limit 30
