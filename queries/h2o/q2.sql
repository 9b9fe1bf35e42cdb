-- H2O Q2: sum of v1 by id1 and id2 (10,000 groups).
select id1, id2, sum(v1) as v1
from x
group by id1, id2;
