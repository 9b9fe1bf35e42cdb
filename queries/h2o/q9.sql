-- H2O Q9: squared correlation of v1 and v2 by id2 and id4 (10,000 groups).
select id2, id4, power(corr(v1, v2), 2) as r2
from x
group by id2, id4;
