-- ClickBench Q5: distinct users.
select count(distinct "UserID") from hits;
