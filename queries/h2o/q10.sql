-- H2O Q10: sum of v3 and count by all six ids (nearly a group a row).
select id1, id2, id3, id4, id5, id6, sum(v3) as v3, count(*) as count
from x
group by id1, id2, id3, id4, id5, id6;
