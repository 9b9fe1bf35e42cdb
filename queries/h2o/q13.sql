-- H2O Q13: left join with medium on an integer.
-- The benchmark keeps the joined rows; here their numbers are summed up, so that what a client makes of rows is not measured.
select
    count(*) as n,
    sum(lhs.v1) as v1,
    sum(medium.v2) as v2,
    sum(lhs.id3) as id3,
    sum(medium.id1) as medium_id1
from lhs
left join medium on lhs.id2 = medium.id2;
