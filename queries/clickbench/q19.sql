-- ClickBench Q19: users, minutes and phrases by hits.
-- The order is made total, so that answers can be compared.
select "UserID", extract(minute from "EventTime") as m, "SearchPhrase", count(*)
from hits
group by "UserID", m, "SearchPhrase"
order by count(*) desc, "UserID", m, "SearchPhrase"
limit 10;
