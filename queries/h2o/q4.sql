-- H2O Q4: means of v1, v2 and v3 by id4 (100 groups).
select id4, avg(v1) as v1, avg(v2) as v2, avg(v3) as v3
from x
group by id4;
