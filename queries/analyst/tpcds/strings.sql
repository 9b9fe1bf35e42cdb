select upper(substr(c_last_name,1,1)) l, count(*) n, count(distinct lower(c_email_address)) e,
  max(length(c_first_name || ' ' || c_last_name)) m
from customer
where c_email_address like '%.com'
group by 1
order by 1
