-- ClickBench Q27: phrases, the first ten by time and phrase.
select "SearchPhrase"
from hits
where "SearchPhrase" <> ''
order by "EventTime", "SearchPhrase"
limit 10;
