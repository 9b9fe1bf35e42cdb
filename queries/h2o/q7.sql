-- H2O Q7: largest v1 less smallest v2 by id3 (a group a hundred rows, keys are texts).
select id3, max(v1) - min(v2) as range_v1_v2
from x
group by id3;
