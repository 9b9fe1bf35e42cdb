-- H2O Q3: sum of v1 and mean of v3 by id3 (a group a hundred rows, keys are texts).
select id3, sum(v1) as v1, avg(v3) as v3
from x
group by id3;
