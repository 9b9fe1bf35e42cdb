-- H2O Q6: median and standard deviation of v3 by id4 and id5 (10,000 groups).
select id4, id5, median(v3) as median_v3, stddev(v3) as sd_v3
from x
group by id4, id5;
