-- H2O Q1: sum of v1 by id1 (100 groups).
select id1, sum(v1) as v1
from x
group by id1;
