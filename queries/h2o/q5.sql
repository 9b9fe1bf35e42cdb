-- H2O Q5: sums of v1, v2 and v3 by id6 (a group a hundred rows, keys are integers).
select id6, sum(v1) as v1, sum(v2) as v2, sum(v3) as v3
from x
group by id6;
