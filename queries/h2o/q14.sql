-- H2O Q14: inner join with medium on a text.
-- The benchmark keeps the joined rows; here their numbers are summed up, so that what a client makes of rows is not measured.
select
    count(*) as n,
    sum(lhs.v1) as v1,
    sum(medium.v2) as v2,
    sum(lhs.id3) as id3,
    sum(medium.id1) as medium_id1
from lhs
join medium on lhs.id5 = medium.id5;
